package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// field finds a field by its name in the API (ssh_endpoint) or in JSON (sshEndpoint).
func field(md protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByName(protoreflect.Name(key)); fd != nil {
		return fd
	}
	return md.Fields().ByJSONName(key)
}

// unknownKey names the key, where it is, and what was probably meant.
func unknownKey(key *yaml.Node, md protoreflect.MessageDescriptor, path string) error {
	msg := fmt.Sprintf("unknown key %q", key.Value)
	if path != "" {
		msg += fmt.Sprintf(" in %q", path)
	}
	best, distance := "", 3
	for i := range md.Fields().Len() {
		name := string(md.Fields().Get(i).Name())
		if d := editDistance(key.Value, name); d < distance && d < len(name) {
			best, distance = name, d
		}
	}
	if best != "" {
		msg += fmt.Sprintf(": did you mean %q?", best)
	}
	return &Error{Line: key.Line, Msg: msg}
}

// editDistance counts the letters to change, add or drop (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
