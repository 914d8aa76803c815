{{- define "tollgate.name" -}}
{{- if contains "tollgate" .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-tollgate" .Release.Name }}{{ end -}}
{{- end }}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: tollgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The secrets that are named, each with the folder that it is mounted at. */}}
{{- define "tollgate.secrets" -}}
{{- $all := dict
  "store" .Values.store.passwordSecret
  "sentinel" .Values.store.sentinelPasswordSecret
  "store-ca" .Values.store.caSecret
  "store-cert" .Values.store.certSecret
  "tokens" .Values.tokensSecret
  "tls" .Values.tlsSecret
  "client-ca" .Values.clientCaSecret
  "holds" .Values.holdSecret
  "identity" .Values.identitySecret
}}
{{- range $folder, $secret := $all }}
{{- with $secret }}
{{ $folder }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
