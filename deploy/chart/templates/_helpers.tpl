{{- /* The defaults of values that are left empty, which Helm takes away. */}}
{{- define "vworkspace-operator.defaults" -}}
{{- $defaults := fromJson `{"image": {"repository": "", "tag": "", "digest": "", "pullPolicy": "", "pullSecrets": []}, "replicas": 2, "shards": 1, "controlPlane": {"enabled": true, "url": "", "clusterId": ""}, "profile": "multi-tenant", "settings": {}, "extraArgs": [], "env": {}, "extraVolumes": [], "extraVolumeMounts": [], "proxy": {"https": "", "http": "", "none": ""}, "tenants": [], "releaseAccount": "vworkspace-release", "veleroNamespace": "", "tenantRoles": true, "ownerReferenceProtection": false, "appliedBoxes": false, "boxes": [], "webhooks": {"enabled": false, "certManager": true, "caBundle": ""}, "serviceMonitor": {"enabled": false, "labels": {}}, "prometheusRule": {"enabled": false, "labels": {}}, "networkPolicy": {"enabled": true}, "crds": {"install": true}, "serviceAccount": {"annotations": {}}, "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}, "nodeSelector": {}, "tolerations": [], "affinity": {}, "topologySpreadConstraints": [], "priorityClassName": "", "podLabels": {}, "podAnnotations": {}}` }}
{{- range $name, $default := $defaults }}
{{- if not (hasKey $.Values $name) }}{{ $_ := set $.Values $name $default }}{{ end }}
{{- end }}
{{- range $section := list "image" "controlPlane" "proxy" "webhooks" "serviceMonitor" "prometheusRule" "networkPolicy" "crds" "serviceAccount" }}
{{- $values := get $.Values $section }}
{{- range $name, $default := get $defaults $section }}
{{- if not (hasKey $values $name) }}{{ $_ := set $values $name $default }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "vworkspace-operator.image" -}}
{{- if $.Values.image.digest -}}
{{ $.Values.image.repository }}@{{ $.Values.image.digest }}
{{- else -}}
{{ $.Values.image.repository }}:{{ $.Values.image.tag }}
{{- end -}}
{{- end }}

{{- define "vworkspace-operator.boxes" -}}
{{- range $index, $box := $.Values.boxes -}}
{{- if $index }},{{ end }}/etc/vworkspace/boxes/{{ $index }}/{{ $box.file }}
{{- end -}}
{{- end }}

{{- /* The seconds that a pod has to end: longer than the grace period of what runs in it. */}}
{{- define "vworkspace-operator.grace" -}}
{{- $seconds := 0 }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" (toString $.Values.settings.gracePeriod) -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit .) (get (dict "ms" 0.001 "s" 1 "m" 60 "h" 3600) $unit)) }}
{{- end }}
{{- max 45 (add 15 (int (ceil $seconds))) }}
{{- end }}

{{- /* The environment: proxies, and over them what is said by name. */}}
{{- define "vworkspace-operator.env" -}}
{{- $env := dict }}
{{- with $.Values.proxy.https }}{{ $_ := set $env "HTTPS_PROXY" . }}{{ end }}
{{- with $.Values.proxy.http }}{{ $_ := set $env "HTTP_PROXY" . }}{{ end }}
{{- with $.Values.proxy.none }}{{ $_ := set $env "NO_PROXY" . }}{{ end }}
{{- mergeOverwrite $env $.Values.env | toYaml }}
{{- end }}

{{- /* The settings of the profile, and over them what is said by name. */}}
{{- define "vworkspace-operator.settings" -}}
{{- $profile := include "vworkspace-operator.profile" $ | fromYaml }}
{{- if ne $.Values.releaseAccount "vworkspace-release" }}
{{- $profile = omit $profile "serviceAccount" }}
{{- end }}
{{- mergeOverwrite $profile $.Values.settings | toYaml }}
{{- end }}

{{- define "vworkspace-operator.profile" -}}
{{- if eq $.Values.profile "single-tenant" }}
serviceAccount: ""
allowUnimpersonatedReleases: true
{{- else if $.Values.controlPlane.enabled }}
allowedImages: "none.invalid/"
jobSignatures: "required"
{{- else }}
allowedImages: "none.invalid/"
{{- end }}
{{- end }}

{{- /* A setting as an argument. */}}
{{- define "vworkspace-operator.setting" -}}
{{- $flag := kebabcase .name }}
{{- if kindIs "bool" .value -}}
--{{ ternary "" "no-" .value }}{{ $flag }}
{{- else if kindIs "slice" .value -}}
--{{ $flag }}={{ join "," .value }}
{{- else -}}
--{{ $flag }}={{ .value }}
{{- end -}}
{{- end }}

{{- /* What no schema can express. */}}
{{- define "vworkspace-operator.check" -}}
{{- if not (regexMatch "^([^/]*[.:][^/]*|localhost)/." $.Values.image.repository) }}
{{- fail "image.repository: needs a registry, as in ghcr.io/you/vworkspace-operator: no public image has this name" }}
{{- end }}
{{- if regexMatch "^([^/]+[.])?(example([.](com|net|org))?|invalid)(:[0-9]+)?/" $.Values.image.repository }}
{{- fail "image.repository: is in a registry that exists in examples only: name yours" }}
{{- end }}
{{- if not (or $.Values.image.tag $.Values.image.digest) }}
{{- fail "image.tag: is needed, or image.digest: which image to run" }}
{{- end }}
{{- if and (not $.Values.controlPlane.enabled) (not $.Values.controlPlane.clusterId) }}
{{- fail "controlPlane.clusterId: is needed without a control plane: what the label app.vworkspace.io/cluster-id says on objects" }}
{{- end }}
{{- if eq $.Values.releaseAccount "vworkspace-operation-runner" }}
{{- fail "releaseAccount: is the account that Operations run as, which has no rights: name another one for releases" }}
{{- end }}
{{- $named := dict }}
{{- range $.Values.tenants }}
{{- if hasKey $named .namespace }}
{{- fail (printf "tenants: names %s twice: give each namespace one entry" .namespace) }}
{{- end }}
{{- $_ := set $named .namespace true }}
{{- end }}
{{- if and $.Values.webhooks.enabled (semverCompare "<1.28.0-0" $.Capabilities.KubeVersion.Version) }}
{{- fail "webhooks.enabled: needs Kubernetes 1.28 or newer" }}
{{- end }}
{{- if and $.Values.webhooks.enabled (not $.Values.webhooks.certManager) (not $.Values.webhooks.caBundle) }}
{{- fail "webhooks.caBundle: is needed where the webhooks have no certificate by cert-manager: the authority of yours, PEM" }}
{{- end }}
{{- if contains "PRIVATE KEY-----" $.Values.webhooks.caBundle }}
{{- fail "webhooks.caBundle: holds a private key, which whoever may read the webhook configurations would read: give certificates" }}
{{- end }}
{{- end }}
