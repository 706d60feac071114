"""The Helm chart by Helm's own library: what it makes of values, and what it refuses.

Promises: what is made is checked where a cluster would: names that point at each other, the pod's rights, the server's
own reading of the settings. Must not: need a cluster; whether one runs it is not tried here.
"""

import subprocess

import pytest
import yaml

from places import BINARY, PACKAGING, ROOT

kubernetes = pytest.importorskip("kubernetes_validate", reason="tests/packages/requirements.txt is not installed")
helm = pytest.importorskip("helm_python", reason="tests/packages/requirements.txt is not installed")
CHART = str(PACKAGING / "helm" / "tideline")
OPEN = 'insecure = true\nallowed_hosts = ["tideline.chat"]\n'
CLOSED = '[tls]\ncertificate_file = "/etc/tideline/secrets/tls.crt"\nkey_file = "/etc/tideline/secrets/tls.key"\n\n[auth]\nissuer = "https://x.example"\n'
ALL = {"config": CLOSED, "secretName": "tideline", "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True, "labels": {"release": "p"}}}


def made(**values):
    """What `helm template` prints, by kind."""
    with helm.Chart.load(CHART) as chart:
        rendered = chart.render(values=values, name="chat", namespace="talk")
    documents = [one for text in rendered.values() if not text.startswith("Tideline") for one in yaml.safe_load_all(text)]
    return {one["kind"]: one for one in documents if one}


@pytest.mark.parametrize("values", [{"config": OPEN}, ALL])
def test_lint_has_nothing_to_say(values):
    report = helm.chart.lint(CHART, values, strict=True)
    worse = [one for one in report["messages"] if one["severity"] > 1]
    assert not worse and not report["errors"], report


def test_the_parts_name_each_other(tmp_path):
    kinds = made(**ALL)
    assert set(kinds) == {"ConfigMap", "PodDisruptionBudget", "PrometheusRule", "Service", "ServiceMonitor", "StatefulSet"}
    pods = kinds["StatefulSet"]["spec"]
    labels = pods["template"]["metadata"]["labels"]
    for selector in (pods["selector"]["matchLabels"], kinds["Service"]["spec"]["selector"], kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    assert kinds["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items() <= kinds["Service"]["metadata"]["labels"].items()
    assert pods["serviceName"] == kinds["Service"]["metadata"]["name"]
    container = pods["template"]["spec"]["containers"][0]
    volumes = {one["name"] for one in pods["template"]["spec"]["volumes"] + [one["metadata"] for one in pods["volumeClaimTemplates"]]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    assert all(container[probe]["httpGet"]["scheme"] == "HTTPS" for probe in ("startupProbe", "readinessProbe", "livenessProbe"))
    # The alerts know the job by this name.
    assert kinds["Service"]["metadata"]["labels"][kinds["ServiceMonitor"]["spec"]["jobLabel"]] == "tideline"
    assert kinds["PrometheusRule"]["spec"] == yaml.safe_load((ROOT / "grafana/prometheus/alerts.yml").read_text())
    assert kinds["PrometheusRule"]["metadata"]["labels"]["release"] == "p"


@pytest.mark.parametrize("values", [{"config": OPEN}, ALL])
def test_a_cluster_knows_every_field(values):
    foreign = {"PrometheusRule", "ServiceMonitor"}  # of Prometheus' operator; its schemas are not at hand
    for kind, document in made(**values).items():
        if kind not in foreign:
            kubernetes.validate(document, kubernetes.latest_version(), strict=True)


@pytest.mark.parametrize("config", [OPEN, CLOSED])
def test_the_server_reads_the_settings_that_the_pod_gets(tmp_path, config):
    kinds = made(config=config)
    assert kinds["ConfigMap"]["data"]["tideline.toml"] == config
    container = kinds["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    environment = {one["name"]: one["value"] for one in container["env"]}
    (tmp_path / "tideline.toml").write_text(config)
    arguments = ["config" if word == "serve" else word for word in container["args"]]
    arguments[arguments.index("--config") + 1] = str(tmp_path / "tideline.toml")
    told = subprocess.run([BINARY, *arguments], env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert 'listen = "0.0.0.0:7070"' in told.stdout and 'data = "/var/lib/tideline/data"' in told.stdout


@pytest.mark.parametrize("values, why", [
    ({}, "a pod serves others"),
    ({"config": OPEN + 'data = "/elsewhere"\n'}, "set by the chart"),
    ({"config": OPEN, "replicas": 2}, "replicas"),
    ({"config": OPEN, "service": {"port": 70700}}, "port"),
    ({"config": OPEN, "storage": {"size": "much"}}, "size"),
])
def test_bad_values_are_refused(values, why):
    with pytest.raises(helm.HelmError) as caught:
        made(**values)
    assert why in str(caught.value)
