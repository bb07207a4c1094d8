package serve

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-metal/holdfast/internal/images"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
)

// openImages opens the image files below the data directory. A peer that keeps all data in
// memory uses a temporary directory, which done removes.
func openImages(
	cfg images.Config, dataDir string, cluster images.Cluster, state images.State,
) (_ *images.Depot, done func(), err error) {
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
	return images.New(cfg, store, cluster, state), done, nil
}
