"""Drives an API server with the package `kubernetes`: client.py objects|forgetting|pods NAMESPACE. Ends with 0 if all is well."""

import sys
import threading

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import portforward, stream

GROUP, VERSION, TASKS = "kubeopencode.io", "v1alpha1", "tasks"
NAMESPACE = sys.argv[2]
# Every wait ends, also one for something that never comes.
LIMIT = 60


def refused(code, reason, call, *args, **kwargs):
    """Expects a refusal."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert (error.status, error.reason) == (code, reason), error
        return error
    raise AssertionError(f"{call} was granted")


def task(name, **spec):
    spec = {"description": "Say hello", "agentRef": {"name": "nobody"}, **spec}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Task", "metadata": {"name": name}, "spec": spec}


def custom_objects():
    api = client.CustomObjectsApi()
    where = (GROUP, VERSION, NAMESPACE, TASKS)
    created = api.create_namespaced_custom_object(*where, task("one"))
    assert created["metadata"]["generation"] == 1, created
    refused(409, "Conflict", api.create_namespaced_custom_object, *where, task("one"))
    refused(422, "Unprocessable Entity", api.create_namespaced_custom_object, *where, task("two", timeout="soon"))
    changed = api.patch_namespaced_custom_object(*where, "one", {"spec": {"timeout": "5m"}})
    assert changed["spec"]["timeout"] == "5m" and changed["metadata"]["generation"] == 2, changed
    api.patch_namespaced_custom_object_status(*where, "one", {"status": {"phase": "Running"}})
    stored = api.get_namespaced_custom_object(*where, "one")
    assert stored["status"]["phase"] == "Running", stored
    # Another client was faster.
    refused(409, "Conflict", api.replace_namespaced_custom_object, *where, "one", created)
    stored["spec"]["description"] = "Say bye"
    assert api.replace_namespaced_custom_object(*where, "one", stored)["spec"]["description"] == "Say bye"
    for name in ("two", "three", "four", "five"):
        api.create_namespaced_custom_object(*where, task(name))
    names, token, pages = [], None, 0
    while token != "":
        page = api.list_namespaced_custom_object(*where, limit=2, _continue=token)
        names += [item["metadata"]["name"] for item in page["items"]]
        token, pages = page["metadata"].get("continue", ""), pages + 1
    assert (names, pages) == (["five", "four", "one", "three", "two"], 3), (names, pages)
    api.delete_namespaced_custom_object(*where, "one")
    refused(404, "Not Found", api.get_namespaced_custom_object, *where, "one")
    api.delete_collection_namespaced_custom_object(*where)
    assert api.list_namespaced_custom_object(*where)["items"] == []


def core_objects():
    api = client.CoreV1Api()
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="colours"), data={"sky": "blue"})
    api.create_namespaced_config_map(NAMESPACE, body)
    assert api.patch_namespaced_config_map("colours", NAMESPACE, {"data": {"sky": "grey"}}).data == {"sky": "grey"}
    found = api.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=colours")
    assert [item.metadata.name for item in found.items] == ["colours"]
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="keys"), string_data={"token": "hush"})
    assert api.create_namespaced_secret(NAMESPACE, secret).data == {"token": "aHVzaA=="}
    deployment = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=0,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels={"app": "web"}),
                spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="example.com/web")]),
            ),
        ),
    )
    apps = client.AppsV1Api()
    assert apps.create_namespaced_deployment(NAMESPACE, deployment).spec.strategy.type == "RollingUpdate"
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 0}})
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Background")
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="create", group=GROUP, resource=TASKS)
        )
    )
    assert client.AuthorizationV1Api().create_self_subject_access_review(review).status.allowed
    api.delete_namespaced_config_map("colours", NAMESPACE)
    api.delete_namespaced_secret("keys", NAMESPACE)


def watches():
    api = client.CoreV1Api()
    version = api.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="watched"), data={"n": "1"})

    def change():
        api.create_namespaced_config_map(NAMESPACE, body)
        api.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"n": "2"}})
        api.delete_namespaced_config_map("watched", NAMESPACE)

    def observed(count, start):
        events = watch.Watch()
        found = []
        wanted = {"field_selector": "metadata.name=watched", "timeout_seconds": LIMIT, "resource_version": start}
        for event in events.stream(api.list_namespaced_config_map, NAMESPACE, **wanted):
            found.append((event["type"], event["object"].metadata.resource_version))
            if len(found) == count:
                events.stop()
        return found

    changing = threading.Thread(target=change)
    changing.start()
    first = observed(3, version)
    changing.join()
    assert [kind for kind, _ in first] == ["ADDED", "MODIFIED", "DELETED"], first
    # What happened after one of them can be had again.
    assert observed(2, first[0][1]) == first[1:]


def forgetting():
    """A version that is too old cannot be watched, and the server reports it. Large objects make our server forget."""
    api = client.CoreV1Api()
    large = {"data": {"much": "x" * 900_000}}
    api.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="large")))
    for attempt in range(100):
        try:
            for _ in watch.Watch().stream(
                api.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=1
            ):
                break
        except ApiException as error:
            assert error.status == 410, error
            break
        large["data"]["attempt"] = str(attempt)
        api.patch_namespaced_config_map("large", NAMESPACE, large)
    else:
        raise AssertionError("a version from long ago is never gone")
    api.delete_namespaced_config_map("large", NAMESPACE)


def commands():
    api = client.CoreV1Api()
    run = {"stderr": True, "stdin": False, "stdout": True, "tty": False, "_request_timeout": LIMIT}
    output = stream(api.connect_get_namespaced_pod_exec, "p", NAMESPACE, command=["sh", "-c", "echo hello"], **run)
    assert output == "hello\n", output
    run = {**run, "stdin": True, "_preload_content": False}
    shell = stream(api.connect_get_namespaced_pod_exec, "p", NAMESPACE, command=["sh"], **run)
    shell.write_stdin("echo to you; echo and you >&2; exit 5\n")
    shell.run_forever(timeout=LIMIT)
    assert (shell.read_stdout(), shell.read_stderr(), shell.returncode) == ("to you\n", "and you\n", 5)
    refused(400, "Bad Request", api.connect_get_namespaced_pod_exec, "p", NAMESPACE, command=["true"])


def logs():
    api = client.CoreV1Api()
    line = "for i in 1 2 3; do echo line $i; sleep 0.3; done"
    container = client.V1Container(name="main", image="busybox", command=["sh", "-c", line])
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="speaker"),
        spec=client.V1PodSpec(restart_policy="Never", containers=[container]),
    )
    api.create_namespaced_pod(NAMESPACE, pod)
    events = watch.Watch()
    for event in events.stream(api.list_namespaced_pod, NAMESPACE, timeout_seconds=LIMIT):
        if event["object"].metadata.name == "speaker" and event["object"].status.phase != "Pending":
            events.stop()
    followed = list(watch.Watch().stream(api.read_namespaced_pod_log, "speaker", NAMESPACE, _request_timeout=LIMIT))
    assert followed == ["line 1", "line 2", "line 3"], followed
    assert api.read_namespaced_pod_log("speaker", NAMESPACE, tail_lines=1) == "line 3\n"
    api.delete_namespaced_pod("speaker", NAMESPACE, grace_period_seconds=0)


def ports():
    api = client.CoreV1Api()
    forwarded = portforward(api.connect_get_namespaced_pod_portforward, "p", NAMESPACE, ports="7")
    # The port is closed, and the client gets that error.
    socket = forwarded.socket(7)
    socket.settimeout(LIMIT)
    assert socket.recv(1) == b""
    assert "refused" in forwarded.error(7), forwarded.error(7)


config.load_kube_config()
parts = {
    "objects": [custom_objects, core_objects, watches],
    "forgetting": [forgetting],
    "pods": [commands, logs, ports],
}
for part in parts[sys.argv[1]]:
    part()
