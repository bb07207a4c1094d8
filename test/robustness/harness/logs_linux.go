package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Trouble returns texts that no log may contain: data races, panics, crashes of the
// runtime.
func (c *Cluster) Trouble() []error {
	logs, err := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	if err != nil {
		return []error{err}
	}
	var found []error
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			found = append(found, err)
			continue
		}
		for _, mark := range []string{"WARNING: DATA RACE", "\npanic: ", "\nfatal error: "} {
			if i := bytes.Index(b, []byte(mark)); i >= 0 {
				found = append(found, fmt.Errorf("%s has:\n%s", name, b[i:min(len(b), i+6000)]))
			}
		}
	}
	return found
}
