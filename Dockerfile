# The operator as a user without a name, in an image with neither shell nor package manager.
#   docker build --build-arg RELEASE=1.0.0 -t registry.example.com/vworkspace-operator:1.0.0 .
# The base is pinned by its digest (.github/dependabot.yml asks for the next one); another one: --build-arg BASE=NAME@sha256:…
# With RELEASE, a base without its digest ends the build; without, it is told.
# What is installed is pinned by deploy/image/requirements.txt, hashes included (scripts/lock writes it).
ARG BASE=python:3.13-slim@sha256:ffb752e139c0a19692a43af8d8523b274222dd68eebad5d583b45c2201c6e30a

FROM ${BASE} AS build
ARG BASE
ARG RELEASE=
WORKDIR /src
COPY deploy/image deploy/image
RUN python deploy/image/base.py
RUN python -m pip install --no-cache-dir --require-hashes --only-binary :all: -r deploy/image/build-requirements.txt \
 && python -m venv --without-pip /opt/operator \
 && python -m pip --python /opt/operator/bin/python install --no-cache-dir --require-hashes --no-deps \
      --only-binary :all: -r deploy/image/requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY core core
# Not adapters/fake: what is not there is not in the wheel, and the operator has no use for the embedded servers.
COPY adapters/kube adapters/kube
COPY adapters/odoo adapters/odoo
COPY app app
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels ./core . \
 && python -m pip --python /opt/operator/bin/python install --no-cache-dir --no-index --no-deps /wheels/*.whl

# The same Python as above: the virtual environment refers to it. What installs or runs other things goes last.
FROM ${BASE} AS bare
COPY deploy/image /strip
RUN ["python", "/strip/strip.py"]

# One layer of what is left: nothing that was taken away lies beneath it.
FROM scratch
ARG BASE
LABEL org.opencontainers.image.base.name=${BASE}
COPY --from=bare / /
COPY --from=build /opt/operator /opt/operator
ENV PATH=/usr/local/bin:/usr/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8
USER 65532:65532
EXPOSE 8080 9443
ENTRYPOINT ["/opt/operator/bin/vworkspace-operator"]
CMD ["--help"]
