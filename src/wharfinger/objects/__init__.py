"""Objects of Kubernetes: facts in `model`, text and bytes in `documents`, and rk8s' format of them."""
