# The operator, without compiler or package manager of its own in use, as a user without a name. Build it with
#   docker build -t registry.example.com/vworkspace-operator:1 .
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY core core
COPY adapters adapters
COPY app app
RUN python -m venv /opt/operator \
 && /opt/operator/bin/python -m pip install --no-cache-dir --disable-pip-version-check '.[operator]'

# The same Python as above: the virtual environment refers to it.
FROM python:3.13-slim
COPY --from=build /opt/operator /opt/operator
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080 9443
ENTRYPOINT ["/opt/operator/bin/vworkspace-operator"]
CMD ["--help"]
