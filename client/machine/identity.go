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

// maxID is the maximum length of an id.
const maxID = 63

// identity is the file that keeps the id of a machine.
type identity struct {
	MachineID string `json:"machine_id"`
	// Hardware identifies the hardware that the file was written on. If a disk is copied to
	// another machine, the two must not use one id: the cluster would never notice if one
	// of them died.
	Hardware string `json:"hardware,omitempty"`
}

// Identity returns the id of this machine, which survives restarts. It is the id in the
// file; or want, if the file has none; or else eight random hex characters (the form of
// specification 000), which are written to the file. If note is not empty, it explains why
// the id in the file was not used.
//
// The hardware is any value that no two machines share, such as the UUID of the board, or
// empty if unknown. A file written on other hardware is ignored, unless want is its id.
func Identity(path, want, hardware string) (id, note string, err error) {
	if want != "" && !validID(want) {
		return "", "", fmt.Errorf("use machine id %q: use up to %d letters, digits, dots, dashes and underscores",
			want, maxID)
	}
	have, err := readIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errNoIdentity):
		note = err.Error()
	case err != nil:
		return "", "", fmt.Errorf("read the identity: %w", err)
	case want != "" && want != have.MachineID:
		return "", "", fmt.Errorf("use machine id %q: %s has the id %q: remove the file to change it",
			want, path, have.MachineID)
	case want == "" && have.Hardware != "" && hardware != "" && have.Hardware != hardware:
		note = fmt.Sprintf("%s was written on other hardware, with the id %s: "+
			"if only the board was replaced, pass that id", path, have.MachineID)
	case have.Hardware == hardware || hardware == "":
		return have.MachineID, "", nil
	default:
		// The file has no hardware, or want confirms that this is the machine.
		want = have.MachineID
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

var errNoIdentity = errors.New("no identity in the file")

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
