//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/url"
	"os"

	"k8s.io/client-go/tools/clientcmd"
)

const (
	manifest  = "/etc/kubernetes/manifests/kube-apiserver.yaml" // kubeadm writes it for the kubelet of a control plane
	adminConf = "/etc/kubernetes/admin.conf"
)

// standInForAPI listens at the address of a control plane's own API server, which would run
// in a container and is missing here. It forwards connections to the cluster's API server.
func standInForAPI() error {
	if _, err := os.Stat(manifest); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	own, err := host(bootstrapConf)
	if err != nil {
		return err
	}
	cluster, err := host(adminConf)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", own) //nolint:noctx // it listens until this process ends
	if err != nil {
		return fmt.Errorf("stand in for the API server: %w", err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				log.Print(err)
				return
			}
			go pass(c, cluster)
		}
	}()
	return nil
}

// host returns the server address in a kubeconfig.
func host(file string) (string, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(cfg.Host)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	return u.Host, nil
}

func pass(c net.Conn, to string) {
	defer func() { _ = c.Close() }()
	s, err := net.Dial("tcp", to) //nolint:noctx // either end closes it
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = s.Close() }()
	go func() {
		_, _ = io.Copy(s, c) // the other direction reports the end
		_ = s.Close()
	}()
	_, _ = io.Copy(c, s)
}
