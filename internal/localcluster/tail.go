package localcluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// tail returns at most the last n bytes of a file, beginning at the start of a line. If the
// file cannot be read it returns the error as text, for error messages.
func tail(name string, n int) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, st.Size()-int64(n))
	b, err := io.ReadAll(io.NewSectionReader(f, from, int64(n)))
	if err != nil {
		return fmt.Sprintf("%s%v", b, err)
	}
	if i := bytes.IndexByte(b, '\n'); from > 0 && i >= 0 {
		b = b[i+1:]
	}
	return string(b)
}
