package images

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-metal/holdfast/internal/images/blob"
)

// Open opens the image files below the data directory. A peer that keeps all data in
// memory uses a temporary directory, which done removes.
func Open(
	cfg Config, dataDir string, cluster Cluster, state State,
) (_ *Depot, done func(), err error) {
	done = func() {}
	if dataDir == "" {
		dataDir, err = os.MkdirTemp("", "holdfast-dev-")
		if err != nil {
			return nil, nil, fmt.Errorf("make a directory for images: %w", err)
		}
		done = func() { _ = os.RemoveAll(dataDir) }
	}
	store, err := blob.Open(blob.Config{Dir: filepath.Join(dataDir, "images")})
	if err != nil {
		done()
		return nil, nil, err
	}
	return New(cfg, store, cluster, state), done, nil
}
