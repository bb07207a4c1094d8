package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Trouble returns texts in the logs of a directory that no log may contain: data races,
// panics, fatal errors.
func Trouble(dir string) []string {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		for _, mark := range []string{"WARNING: DATA RACE", "\npanic: ", "\nfatal error: "} {
			if i := bytes.Index(b, []byte(mark)); i >= 0 {
				found = append(found, fmt.Sprintf("%s has:\n%s", filepath.Base(name), b[i:min(len(b), i+4000)]))
			}
		}
	}
	return found
}
