package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// field finds a field by its name in the API (ssh_endpoint) or in JSON (sshEndpoint).
func field(md protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByName(protoreflect.Name(key)); fd != nil {
		return fd
	}
	return md.Fields().ByJSONName(key)
}

// unknownKey returns an error with the key, its place, and the most similar known key.
func unknownKey(key *yaml.Node, md protoreflect.MessageDescriptor, path string) error {
	msg := fmt.Sprintf("unknown key %q", key.Value)
	if path != "" {
		msg += fmt.Sprintf(" in %q", path)
	}
	var names []string
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	best := nearest.Of(key.Value, names)
	if best != "" {
		msg += fmt.Sprintf(": did you mean %q?", best)
	}
	return &Error{Line: key.Line, Msg: msg}
}
