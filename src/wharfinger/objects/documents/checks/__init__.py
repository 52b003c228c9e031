"""What an API server of Kubernetes refuses, found in manifests before anything is done with them.

For the doors only: files that users give, `apply`, and forms of the web page. What is stored was taken by somebody
already, and is decided as it is. The rules and the words are those of `pkg/apis/*/validation` of Kubernetes.
"""
