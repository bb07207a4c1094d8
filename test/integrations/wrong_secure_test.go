package integrations

import (
	"os"
	"testing"
)

// TestWrongInputsOfSecureCluster types wrong certificates, tokens and settings of peers against a
// peer with TLS, and compares exit codes and messages with testdata/wrong_secure.txt.
func TestWrongInputsOfSecureCluster(t *testing.T) {
	l := newLab(t)
	s := newScript(l, "wrong_secure.txt")
	s.right("tls init --cluster prod --peer n1=$GRPC --out pki",
		"tls init --cluster prod --peer n1=$GRPC --out other",
		"tls ca create --out eve",
		"tls cert create --client --name eve --role admin --out eve",
		"tls cert create --client --name vera --role viewer --ca-dir pki/ca --out vera",
		"tls cert create --peer n2 --host 127.0.0.1 --ca-dir pki/ca --out n2")
	open, err := os.ReadFile("pki/n1/keys/peer-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("open-key.pem", open, 0o644); err != nil {
		t.Fatal(err)
	}
	delete(s.env, "HOLDFAST_ADDR")
	l.start("--config", "pki/n1/config.yaml")
	s.values["ADMIN"] = "--addr=" + l.grpc + " --ca=pki/ca/ca.pem --cert=pki/admin/admin.pem --key=pki/admin/admin-key.pem"
	s.values["VIEWER"] = "--addr=" + l.grpc + " --ca=pki/ca/ca.pem --cert=vera/vera.pem --key=vera/vera-key.pem"
	s.values["ELSEWHERE"] = "--grpc-addr=127.0.0.1:0 --http-addr=127.0.0.1:0 --raft-addr=127.0.0.1:0 " +
		"--gossip-addr=127.0.0.1:0"
	s.right("cluster status --wait $ADMIN", "machine register --id m-1 $ADMIN")
	s.check()
}
