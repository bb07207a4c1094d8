// Package kubelab is a Kubernetes control plane for tests: Debian's etcd, a kube-apiserver, a
// kube-controller-manager and the kubeadm that are built from tools/kube, and a host behind a real
// sshd whose kubelet is a stand-in (package kubelet). Its tests hold the provider kube, and
// clusters that use it, to what that API does: make e2e-kube.
//
// It owns how all of that is built, started, broken and ended. It must not decide what is right,
// and nothing but its tests may use it.
package kubelab
