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

// The file is that of the original SDK, byte for byte: 6 bytes "wanaku", two big-endian int32 (the
// version and the type of the service) and the 36 characters of the id.
const (
	idFileSuffix  = ".wanaku.dat"
	idFileMagic   = "wanaku"
	idFileVersion = 1
	idLength      = 36
	idFileLength  = len(idFileMagic) + 4 + 4 + idLength
)

// typeNumber is how the file writes a service type.
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

var errNotAnIDFile = errors.New("it is no id file, or one that was torn")

// idFile keeps the id of a service over restarts.
type idFile struct {
	path        string // empty: nothing is kept
	serviceType uint32
}

func newIDFile(dir string, t Target) (idFile, error) {
	if dir == "" {
		return idFile{}, nil
	}
	if strings.ContainsAny(t.ServiceName, `/\`) || !filepath.IsLocal(t.ServiceName) {
		return idFile{}, fmt.Errorf("keep the id of %q: the name makes no file name", t.ServiceName)
	}
	n, _ := typeNumber(t.ServiceType)
	return idFile{path: filepath.Join(dir, t.ServiceName+idFileSuffix), serviceType: n}, nil
}

// read returns the id, "" if none is kept. An error tells why a file that is there was not used.
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
		return fmt.Errorf("keep the id %.40q: it has not the 36 characters that the file holds", id)
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

// decodeID does not look at the type: a service keeps its id when it learns to do more. Bytes after
// the id are ignored: the document speaks of padding.
func decodeID(b []byte) (string, error) {
	if len(b) < idFileLength || string(b[:len(idFileMagic)]) != idFileMagic {
		return "", errNotAnIDFile
	}
	b = b[len(idFileMagic):]
	if v := binary.BigEndian.Uint32(b); v != idFileVersion {
		return "", fmt.Errorf("it has version %d, this program knows %d", v, idFileVersion)
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
