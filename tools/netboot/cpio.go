package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
)

// file is an entry of the archive. Its mode includes the file type, as in inode(7).
type file struct {
	name         string
	mode         uint32
	data         []byte
	major, minor uint32 // of a device node
}

func dir(name string) file { return file{name: name, mode: 0o40755} }

// archive writes the format newc
// (Documentation/driver-api/early-userspace/buffer-format.rst): thirteen numbers of eight
// hexadecimal digits, the name, and the data, each padded to four bytes. Everything belongs
// to root and has no timestamp.
func archive(files []file) []byte {
	var w bytes.Buffer
	pad := func() {
		for w.Len()%4 != 0 {
			w.WriteByte(0)
		}
	}
	for i, f := range append(files, file{name: "TRAILER!!!"}) {
		links := 1
		fmt.Fprintf(&w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
			i+1, f.mode, 0, 0, links, 0, len(f.data), 0, 0, f.major, f.minor, len(f.name)+1, 0)
		w.WriteString(f.name)
		w.WriteByte(0)
		pad()
		w.Write(f.data)
		pad()
	}
	return w.Bytes()
}

func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(b)
	err = errors.Join(err, z.Close()) // writes the last bytes
	return out.Bytes(), err
}
