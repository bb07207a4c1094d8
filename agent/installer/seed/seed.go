// Package seed adapts the image's root file system to this machine: its name, its login
// keys, a new SSH host key, and a cloud-init NoCloud seed.
//
// It changes nothing else in the image. It works in any directory with a root file system,
// and links in the image cannot lead it outside. It runs none of the image's programs.
package seed

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/agent/installer/peers"
)

// dir is where cloud-init finds a NoCloud seed by default.
const dir = "var/lib/cloud/seed/nocloud"

// cloudConfig keeps cloud-init from deleting the reported host key at the first boot, and
// from waiting for metadata services.
const cloudConfig = `# written by the Holdfast installer
datasource_list: [NoCloud, None]
ssh_deletekeys: false
`

// file is a file to write.
type file struct {
	name string
	text string
	mode fs.FileMode
	like string // a pattern of files with the same label
	// label is set on the file and on directories created for it; "" means none. See
	// labels.
	label string
}

// Plant writes the files of an order and returns the public half of the new host key, as in
// known_hosts, without the name of the host.
func Plant(root *os.Root, o peers.Order) (hostKeys []string, err error) {
	if _, err := root.Stat("etc"); err != nil {
		return nil, fmt.Errorf("write the machine's own files: not a root file system: %w", err)
	}
	private, public, err := hostKey()
	if err != nil {
		return nil, err
	}
	files := []file{
		{
			name: "etc/ssh/ssh_host_ed25519_key",
			text: private, mode: 0o600, like: "etc/ssh/ssh_host_*_key",
		},
		{
			name: "etc/ssh/ssh_host_ed25519_key.pub",
			text: public + "\n", mode: 0o644, like: "etc/ssh/ssh_host_*_key.pub",
		},
		{name: dir + "/meta-data", text: metaData(o), mode: 0o600},
		{name: dir + "/user-data", text: cmp.Or(o.CloudInit.UserData, "#cloud-config\n{}\n"), mode: 0o600},
	}
	if o.CloudInit.NetworkConfig != "" {
		files = append(files, file{name: dir + "/network-config", text: o.CloudInit.NetworkConfig, mode: 0o600})
	}
	if o.Hostname != "" {
		files = append(files, file{name: "etc/hostname", text: o.Hostname + "\n", mode: 0o644})
	}
	if _, err := root.Stat("etc/cloud"); err == nil {
		files = append(files, file{
			name: "etc/cloud/cloud.cfg.d/99-holdfast.cfg",
			text: cloudConfig, mode: 0o644, like: "etc/cloud/cloud.cfg.d/*.cfg",
		})
	}
	if len(o.AuthorizedKeys) > 0 {
		text, err := authorized(root, o.AuthorizedKeys)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: authorizedKeys, text: text, mode: 0o600})
	}
	l := &labels{root: root}
	for i := range files { // before the image's own host keys are removed
		files[i].label = l.of(files[i].name, files[i].like)
	}
	if err := forget(l); err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := write(root, f); err != nil {
			return nil, fmt.Errorf("write /%s: %w", f.name, err)
		}
	}
	return []string{public}, l.scheduleRelabel()
}

const authorizedKeys = "root/.ssh/authorized_keys"

// authorized returns the image's keys followed by the given ones.
func authorized(root *os.Root, keys []string) (string, error) {
	text, err := root.ReadFile(authorizedKeys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read /%s: %w", authorizedKeys, err)
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	for _, k := range keys {
		text = append(text, strings.TrimSpace(k)+"\n"...)
	}
	return string(text), nil
}

// forget removes the identity that all machines with this image would share: host keys, and
// the machine id, which systemd creates again if its file is empty.
func forget(l *labels) error {
	root := l.root
	old, err := fs.Glob(root.FS(), "etc/ssh/ssh_host_*_key*")
	if err != nil {
		return fmt.Errorf("find old host keys: %w", err)
	}
	for _, name := range old {
		if err := root.Remove(name); err != nil {
			return fmt.Errorf("remove the image's host key: %w", err)
		}
	}
	if st, err := root.Lstat("etc/machine-id"); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		empty := file{name: "etc/machine-id", mode: 0o444, label: l.of("etc/machine-id", "")}
		if err := write(root, empty); err != nil {
			return fmt.Errorf("empty the machine id: %w", err)
		}
	}
	return nil
}

// write replaces a file. It replaces a link too, and does not follow it.
func write(root *os.Root, f file) error {
	if i := strings.LastIndexByte(f.name, '/'); i > 0 {
		mode := fs.FileMode(0o755)
		if f.mode == 0o600 && !strings.HasPrefix(f.name, "etc/") {
			mode = 0o700
		}
		if err := mkdirs(root, f.name[:i], mode, f.label); err != nil {
			return err
		}
	}
	if err := root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := root.OpenFile(f.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
	if err != nil {
		return err
	}
	_, err = out.WriteString(f.text)
	return errors.Join(err, out.Chmod(f.mode), setLabel(out, f.label), out.Sync(), out.Close())
}

// mkdirs creates the missing parts of a directory.
func mkdirs(root *os.Root, dir string, mode fs.FileMode, label string) error {
	if up := path.Dir(dir); up != "." {
		if err := mkdirs(root, up, mode, label); err != nil {
			return err
		}
	}
	if err := root.Mkdir(dir, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	made, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(setLabel(made, label), made.Close())
}

func hostKey() (private, public string, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("create a host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", "", fmt.Errorf("create a host key: %w", err)
	}
	wire, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", "", fmt.Errorf("create a host key: %w", err)
	}
	return string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(wire))), nil
}

// metaData returns the metadata in the order. The default has what cloud-init requires: an
// instance id that is new with every installation, so that it runs again.
func metaData(o peers.Order) string {
	if o.CloudInit.MetaData != "" {
		return o.CloudInit.MetaData
	}
	text := "instance-id: " + strconv.Quote(fmt.Sprintf("%s-%s-%d", o.MachineID, o.RunID, o.Attempt)) + "\n"
	if o.Hostname != "" {
		text += "local-hostname: " + strconv.Quote(o.Hostname) + "\n"
	}
	return text
}
