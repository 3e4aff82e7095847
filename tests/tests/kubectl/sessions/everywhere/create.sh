# kubectl sends most of these as protobuf.

kubectl create secret generic keys --from-literal=token=hush --type=example.com/keys

kubectl get secret keys --output jsonpath='{.type} {.data.token}{"\n"}'

printf 'one\ntwo\n' >lines.txt; kubectl create configmap files --from-file=lines.txt --from-literal=a=b

kubectl describe configmap files

kubectl describe secret keys

kubectl create namespace "$NAMESPACE-two"

kubectl get namespace "$NAMESPACE-two" --output jsonpath='{.status.phase}{"\n"}'

kubectl create namespace "$NAMESPACE-two"

kubectl delete namespace "$NAMESPACE-two"

kubectl create serviceaccount bot

kubectl create role reader --verb=get,list --resource=pods,pods/log --resource=tasks.kubeopencode.io

kubectl create rolebinding reader --role=reader --serviceaccount="$NAMESPACE:bot"

kubectl describe role reader

kubectl describe rolebinding reader

kubectl create token bot | cut -d . -f 1 | base64 -d 2>/dev/null | grep -o '"alg":"[A-Z]*'

kubectl create service clusterip web --tcp=80:8080

kubectl create deployment web --image=example.com/web:1 --replicas=0 --port=8080

kubectl get deployment web --output wide

kubectl create configmap colours --from-literal=sky=blue --dry-run=client --output yaml

kubectl create configmap colours --from-literal=sky=blue --dry-run=server

kubectl get configmap colours

kubectl create --filename - <<E | sed 's/-[a-z0-9]* created/-[random] created/'
{apiVersion: v1, kind: ConfigMap, metadata: {generateName: run-}}
E

kubectl create configmap Not_A_Name
