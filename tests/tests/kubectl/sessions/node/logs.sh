# Logs: whole, in part, of others, to the end.

kubectl create --filename - <<'E'
apiVersion: v1
kind: Pod
metadata: {name: counter, labels: {app: counter}}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: busybox, command: [sh, -c, 'for i in 1 2 3 4 5; do echo line $i; sleep 0.3; done']}
  - {name: beside, image: busybox, command: [sh, -c, 'echo beside; sleep 0.3; echo complaint >&2']}
E

until kubectl logs counter >/dev/null 2>&1; do sleep 0.1; done; kubectl logs --follow counter

kubectl logs counter --container main --tail 2

kubectl logs counter --container beside

kubectl logs counter --container main --since 1h --tail 1

kubectl logs counter --container main --since-time 2100-01-01T00:00:00Z

kubectl logs counter --container main --timestamps --tail 1

kubectl logs counter --container main --limit-bytes 4; echo

kubectl logs counter --all-containers --prefix | sort

kubectl logs --selector app=counter --container main --tail 1

kubectl logs counter --container nobody

kubectl logs counter --container main --previous

kubectl logs missing

kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/counter --timeout=60s

kubectl logs --follow counter --container main --tail 1

kubectl create --filename - <<'E'
apiVersion: v1
kind: Pod
metadata: {name: again}
spec:
  restartPolicy: OnFailure
  volumes: [{name: memory, emptyDir: {}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'n=$(cat /memory/n 2>/dev/null || echo 1); echo run $n; echo $((n+1)) >/memory/n; [ $n = 2 ]']
    volumeMounts: [{name: memory, mountPath: /memory}]
E

kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/again --timeout=60s

kubectl logs again --previous

kubectl logs again

kubectl get pod again --no-headers | awk '{print $1, $2, $3, $4}'
