# What somebody may do.

kubectl create serviceaccount bot; kubectl create role reader --verb=get,list --resource=configmaps,tasks.kubeopencode.io; kubectl create rolebinding reader --role=reader --serviceaccount="$NAMESPACE:bot"

kubectl auth can-i create tasks.kubeopencode.io

kubectl auth can-i list tasks.kubeopencode.io --as "system:serviceaccount:$NAMESPACE:bot"

kubectl auth can-i delete tasks.kubeopencode.io --as "system:serviceaccount:$NAMESPACE:bot"

kubectl auth can-i list configmaps --namespace default --as "system:serviceaccount:$NAMESPACE:bot"

kubectl auth can-i get pods --subresource log --as "system:serviceaccount:$NAMESPACE:bot"

kubectl auth can-i get /healthz --as "system:serviceaccount:$NAMESPACE:bot"

kubectl auth can-i get /metrics --as "system:serviceaccount:$NAMESPACE:bot"

kubectl auth can-i --list --as "system:serviceaccount:$NAMESPACE:bot" | grep -v '^ ' | tr -s ' ' | sort

kubectl auth whoami --as "system:serviceaccount:$NAMESPACE:bot"

kubectl auth whoami --as alice --as-group writers

kubectl get secrets --as "system:serviceaccount:$NAMESPACE:bot"

kubectl get configmap missing --as "system:serviceaccount:$NAMESPACE:bot"
