package image

import (
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// baseLayer returns the directories, the user, and the files of Debian packages.
func baseLayer(c Config, p profile, debs []string) (v1.Layer, error) {
	t := tree{}
	for _, deb := range debs {
		if err := unpack(t, deb, p.programs); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", deb, err)
		}
	}
	t.dir("tmp", 0o1777, 0)
	t.dir("etc/"+c.Name, 0o755, 0)
	t.dir(dataDir(c.Name), 0o700, uid)
	t.file("etc/passwd", 0o644, fmt.Appendf(nil,
		"root:x:0:0:root:/:/usr/sbin/nologin\n%s:x:%d:%d:Holdfast:/%s:/usr/sbin/nologin\n",
		c.Name, uid, uid, dataDir(c.Name)))
	t.file("etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", c.Name, uid))
	t.file("etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
	return t.layer(c.At)
}

// productLayer returns the binary and its license.
func productLayer(c Config, binary string) (v1.Layer, error) {
	t := tree{}
	raw, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	t.file("usr/bin/"+c.Name, 0o755, raw)
	if raw, err = os.ReadFile(c.License); err != nil {
		return nil, fmt.Errorf("read the license: %w", err)
	}
	t.file("usr/share/doc/"+c.Name+"/copyright", 0o644, raw)
	return t.layer(c.At)
}
