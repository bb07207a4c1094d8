package sshexec

import (
	"crypto/ed25519"
	"net"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestSessionAsConnectionEnds checks that an unanswered session request ends with the connection.
// The library can miss that for a moment, which this test provokes.
func TestSessionAsConnectionEnds(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() { // it accepts the login, and answers nothing after that
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			cfg := &ssh.ServerConfig{NoClientAuth: true}
			cfg.AddHostKey(signer)
			_, _, _, err = ssh.NewServerConn(conn, cfg)
		}
		served <- err
		<-t.Context().Done()
	}()
	client, err := ssh.Dial("tcp", listener.Addr().String(),
		&ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(signer.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	l := &link{client: client, done: make(chan struct{})}
	close(l.done)
	got := make(chan error, 1)
	go func() {
		_, err := l.session()
		got <- err
	}()
	select {
	case err := <-got:
		if err == nil {
			t.Error("got a session of an ended connection")
		}
	case <-time.After(30 * time.Second):
		t.Error("wait for the end: timed out")
	}
}
