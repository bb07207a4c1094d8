package discovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-metal/holdfast/client/internal/atomicfile"
)

// The file has the format of the original SDK, byte for byte: 6 bytes "wanaku", two
// big-endian int32 (the version and the type of the service) and the 36 characters of the
// id.
const (
	idFileSuffix  = ".wanaku.dat"
	idFileMagic   = "wanaku"
	idFileVersion = 1
	idLength      = 36
	idFileLength  = len(idFileMagic) + 4 + 4 + idLength
)

// typeNumber returns the number of a service type in the file.
func typeNumber(serviceType string) (uint32, bool) {
	switch serviceType {
	case ResourceProvider:
		return 1, true
	case ToolInvoker:
		return 2, true
	case MultiCapability, CodeExecutionEngine:
		return 3, true
	}
	return 0, false
}

var errNotAnIDFile = errors.New("not an id file, or a truncated one")

// idFile keeps the id of a service across restarts.
type idFile struct {
	path        string // empty: the id is not kept
	serviceType uint32
}

func newIDFile(dir string, t Target) (idFile, error) {
	if dir == "" {
		return idFile{}, nil
	}
	if strings.ContainsAny(t.ServiceName, `/\`) || !filepath.IsLocal(t.ServiceName) {
		return idFile{}, fmt.Errorf("keep the id of %q: not usable as a file name", t.ServiceName)
	}
	n, _ := typeNumber(t.ServiceType)
	return idFile{path: filepath.Join(dir, t.ServiceName+idFileSuffix), serviceType: n}, nil
}

// read returns the id, or "" if none is kept. It returns an error if the file exists but is
// unusable.
func (f idFile) read() (string, error) {
	if f.path == "" {
		return "", nil
	}
	b, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the id: %w", err)
	}
	id, err := decodeID(b)
	if err != nil {
		return "", fmt.Errorf("read the id from %s: %w", f.path, err)
	}
	return id, nil
}

func (f idFile) write(id string) error {
	if f.path == "" {
		return nil
	}
	if !fileableID(id) {
		return fmt.Errorf("keep the id %.40q: not 36 characters long", id)
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("keep the id: %w", err)
	}
	if err := atomicfile.Write(f.path, encodeID(f.serviceType, id)); err != nil {
		return fmt.Errorf("keep the id: %w", err)
	}
	return nil
}

func encodeID(serviceType uint32, id string) []byte {
	b := make([]byte, 0, idFileLength)
	b = append(b, idFileMagic...)
	b = binary.BigEndian.AppendUint32(b, idFileVersion)
	b = binary.BigEndian.AppendUint32(b, serviceType)
	return append(b, id...)
}

// decodeID returns the id in the file. It ignores the type, so that a service keeps its id
// if its type changes. It also ignores bytes after the id, because the specification
// mentions padding.
func decodeID(b []byte) (string, error) {
	if len(b) < idFileLength || string(b[:len(idFileMagic)]) != idFileMagic {
		return "", errNotAnIDFile
	}
	b = b[len(idFileMagic):]
	if v := binary.BigEndian.Uint32(b); v != idFileVersion {
		return "", fmt.Errorf("version %d, but this program reads %d", v, idFileVersion)
	}
	id := string(b[8 : 8+idLength])
	if !fileableID(id) {
		return "", errNotAnIDFile
	}
	return id, nil
}

// fileableID reports whether the file can hold an id: 36 visible characters.
func fileableID(id string) bool {
	return len(id) == idLength && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
