package client

import (
	"strconv"
	"strings"
)

// Quote returns a text as the filter of a list or watch writes it, so that it means exactly this
// text: "pool = " + Quote(name). A star in it is no wildcard, as it would be with %q.
func Quote(text string) string { return strings.ReplaceAll(strconv.Quote(text), "*", `\*`) }
