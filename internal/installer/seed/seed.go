// Package seed makes the image's root file system this machine's: its name, who may log in, a fresh
// SSH host key, and a cloud-init NoCloud seed.
//
// It owns these files and nothing else of the image; it works in any directory that looks like a
// root file system, and cannot be led out of it by links of the image. It runs none of the image's
// programs.
package seed

import (
	"bytes"
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

	"github.com/holdfast-metal/holdfast/internal/installer/peers"
)

// dir is where cloud-init looks for a NoCloud seed without being told.
const dir = "var/lib/cloud/seed/nocloud"

// cloudConfig keeps cloud-init from deleting the host key that was reported, which it does at the
// first boot, and from waiting for metadata services.
const cloudConfig = `# written by the Holdfast installer
datasource_list: [NoCloud, None]
ssh_deletekeys: false
`

// file is one file to write.
type file struct {
	name string
	text string
	mode fs.FileMode
	like string // a pattern of files that have the same label
	// label is the one that it and the directories that it needs get; "": none. See labels.
	label string
}

// Plant writes the files of an order and gives the public half of the host key it made, as in
// known_hosts, without the name of the host.
func Plant(root *os.Root, o peers.Order) (hostKeys []string, err error) {
	if _, err := root.Stat("etc"); err != nil {
		return nil, fmt.Errorf("write the machine's own files: this is no root file system: %w", err)
	}
	private, public, err := hostKey()
	if err != nil {
		return nil, err
	}
	files := []file{
		{name: "etc/ssh/ssh_host_ed25519_key", text: private, mode: 0o600, like: "etc/ssh/ssh_host_*_key"},
		{name: "etc/ssh/ssh_host_ed25519_key.pub", text: public + "\n", mode: 0o644, like: "etc/ssh/ssh_host_*_key.pub"},
		{name: dir + "/meta-data", text: metaData(o), mode: 0o600},
		{name: dir + "/user-data", text: orElse(o.CloudInit.UserData, "#cloud-config\n{}\n"), mode: 0o600},
	}
	if o.CloudInit.NetworkConfig != "" {
		files = append(files, file{name: dir + "/network-config", text: o.CloudInit.NetworkConfig, mode: 0o600})
	}
	if o.Hostname != "" {
		files = append(files, file{name: "etc/hostname", text: o.Hostname + "\n", mode: 0o644})
	}
	if _, err := root.Stat("etc/cloud"); err == nil {
		files = append(files, file{name: "etc/cloud/cloud.cfg.d/99-holdfast.cfg", text: cloudConfig, mode: 0o644, like: "etc/cloud/cloud.cfg.d/*.cfg"})
	}
	if len(o.AuthorizedKeys) > 0 {
		text, err := authorized(root, o.AuthorizedKeys)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: authorizedKeys, text: text, mode: 0o600})
	}
	l := &labels{root: root}
	for i := range files {
		files[i].label = l.of(files[i].name, files[i].like) // while the image's own host keys are there
	}
	if err := forget(l); err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := write(root, f); err != nil {
			return nil, fmt.Errorf("write /%s: %w", f.name, err)
		}
	}
	return []string{public}, l.mend()
}

const authorizedKeys = "root/.ssh/authorized_keys"

// authorized adds keys to those that the image has.
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

// forget takes away what every machine with this image would have in common: host keys, and the
// machine id, which systemd makes anew when its file is empty.
func forget(l *labels) error {
	root := l.root
	old, err := fs.Glob(root.FS(), "etc/ssh/ssh_host_*_key*")
	if err != nil {
		return fmt.Errorf("look for old host keys: %w", err)
	}
	for _, name := range old {
		if err := root.Remove(name); err != nil {
			return fmt.Errorf("remove the image's host key: %w", err)
		}
	}
	if st, err := root.Lstat("etc/machine-id"); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		if err := write(root, file{name: "etc/machine-id", mode: 0o444, label: l.of("etc/machine-id", "")}); err != nil {
			return fmt.Errorf("empty the machine id: %w", err)
		}
	}
	return nil
}

// write replaces a file. A link in its place is replaced, not followed.
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

// mkdirs makes what is missing of a directory.
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
		return "", "", fmt.Errorf("make a host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", "", fmt.Errorf("make a host key: %w", err)
	}
	wire, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", "", fmt.Errorf("make a host key: %w", err)
	}
	return string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(wire))), nil
}

// metaData is what the order says, or what cloud-init needs at least: an instance id that is new
// with every install, so that it runs anew.
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

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
