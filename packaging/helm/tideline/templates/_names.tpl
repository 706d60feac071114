{{- define "tideline.labels" -}}
{{ include "tideline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tideline.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tideline.scheme" -}}
{{ if regexMatch "(?m)^\\[tls\\]" .Values.config }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}
