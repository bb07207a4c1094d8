package machine

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-metal/holdfast/client/internal/atomicfile"
)

// maxID is the length of the longest id.
const maxID = 63

// identity is the file that keeps the id of a machine.
type identity struct {
	MachineID string `json:"machine_id"`
	// Hardware is what the machine was recognised by when the file was written. The disk of one
	// machine copied to another one must not make two machines with one id: neither would ever
	// be seen to die.
	Hardware string `json:"hardware,omitempty"`
}

// Identity returns the id of this machine, the same after each restart: the one in the file; or
// want, when the file holds none; or else eight hex characters at random (the form of specification
// 000), which the file keeps. The note, when not empty, tells the operator why the id is not the
// one that the file had held.
//
// Hardware is anything that two machines do not share, such as the UUID of the board; empty when
// that is not known. A file written on other hardware is not believed, unless want is its id.
func Identity(path, want, hardware string) (id, note string, err error) {
	if want != "" && !validID(want) {
		return "", "", fmt.Errorf("use machine id %q: use up to %d letters, digits, dots, dashes and underscores", want, maxID)
	}
	have, err := readIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errNoIdentity):
		note = err.Error()
	case err != nil:
		return "", "", fmt.Errorf("read the identity: %w", err)
	case want != "" && want != have.MachineID:
		return "", "", fmt.Errorf("use machine id %q: %s says that this machine is %q: remove the file if it is to change", want, path, have.MachineID)
	case want == "" && have.Hardware != "" && hardware != "" && have.Hardware != hardware:
		note = fmt.Sprintf("%s was written on other hardware, as %s: if it is the same machine with a new board, give that id", path, have.MachineID)
	case have.Hardware == hardware || hardware == "":
		return have.MachineID, "", nil
	default:
		want = have.MachineID // the file did not know the hardware, or it was told that this is the machine
	}
	if want == "" {
		want = randomID()
	}
	b, err := json.Marshal(identity{MachineID: want, Hardware: hardware})
	if err != nil {
		return "", "", fmt.Errorf("write the identity: %w", err)
	}
	if err := atomicfile.Write(path, append(b, '\n')); err != nil {
		return "", "", fmt.Errorf("keep the identity: %w", err)
	}
	return want, note, nil
}

var errNoIdentity = errors.New("it holds no identity")

func readIdentity(path string) (identity, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return identity{}, err
	}
	have, ok := parseIdentity(b)
	if !ok {
		return identity{}, fmt.Errorf("read %s: %w", path, errNoIdentity)
	}
	return have, nil
}

func parseIdentity(b []byte) (identity, bool) {
	var have identity
	if json.Unmarshal(b, &have) != nil || !validID(have.MachineID) {
		return identity{}, false
	}
	return have, true
}

func validID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("._-", r)
	})
}

func randomID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
