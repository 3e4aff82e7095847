# The forms in which an object is shown.

kubectl create configmap colours --from-literal=sky=blue --from-literal=grass=green

kubectl create configmap colours

kubectl get configmaps colours

kubectl get configmap colours --output yaml

kubectl get configmap colours --output json

kubectl get cm/colours --output name

kubectl get configmap colours --output wide --show-labels

kubectl get configmap colours --output jsonpath='{.data.sky}{"\n"}'

kubectl get configmap colours --output go-template='{{range $key, $value := .data}}{{$key}}={{$value}} {{end}}{{"\n"}}'

kubectl get configmap colours --output custom-columns=NAME:.metadata.name,SKY:.data.sky

kubectl get configmaps --field-selector metadata.name=colours --no-headers --output name

kubectl get configmaps --selector nobody=here

kubectl get configmap colours missing

kubectl get nonsense

kubectl describe configmap colours
