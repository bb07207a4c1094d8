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

// standInForAPI listens where a control plane's kubelet has its own API server, which runs in a
// container and so not here, and passes on what it gets to the cluster's.
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
	l, err := net.Listen("tcp", own) //nolint:noctx // it listens as long as this process runs
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

// host returns where a kubeconfig leads.
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
		_, _ = io.Copy(s, c) // the other direction tells
		_ = s.Close()
	}()
	_, _ = io.Copy(c, s)
}
