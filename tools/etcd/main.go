// Command etcd is etcd, built at the version that `holdfast-bench --vs etcd` compares with.
// It is a separate module, so that peers do not link it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
