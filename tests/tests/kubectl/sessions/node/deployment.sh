# A Deployment: its Pods, its logs, its end.

kubectl create --filename - <<E
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: busybox, command: [sh, -c, 'echo awake; exec sleep 1000']}]
E

kubectl rollout status deployment/web --timeout=60s | tail -n 1

kubectl get deployment web

kubectl logs deployment/web

kubectl exec deployment/web -- echo from inside

kubectl scale deployment web --replicas 2; kubectl wait --for=jsonpath='{.status.readyReplicas}'=2 deployment/web --timeout=60s

kubectl get pods --selector app=web --no-headers | awk '{print $2, $3, $4}'

kubectl set env deployment/web COLOUR=blue; kubectl rollout status deployment/web --timeout=60s | tail -n 1

kubectl get replicasets --selector app=web --no-headers | awk '{print $2, $3, $4}' | sort

kubectl expose deployment web --port 80

kubectl describe service web | grep -E '^(Name|Selector|Type|Port|TargetPort)'

kubectl delete deployment web --cascade=foreground

kubectl get pods,replicasets --selector app=web
