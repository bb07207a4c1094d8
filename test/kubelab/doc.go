// Package kubelab is a Kubernetes control plane for tests: Debian's etcd, a kube-apiserver,
// a kube-controller-manager and the kubeadm built from tools/kube, and a host behind a real
// sshd whose kubelet is a stand-in (package kubelet). Its tests compare the provider kube,
// and clusters that use it, with that API (make e2e-kube).
//
// It builds, starts, breaks and stops all of these. Only its own tests may use it.
package kubelab
