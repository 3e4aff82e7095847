# Every example, applied twice: the second time nothing changes.

kubectl apply --recursive --filename "$EXAMPLES" | grep -vc ' created$'

kubectl apply --recursive --filename "$EXAMPLES"
