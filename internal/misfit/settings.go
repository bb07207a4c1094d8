package misfit

import (
	stdbytes "bytes"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Settings decodes a configuration file in YAML or JSON. It refuses keys that a struct does not
// have, with the keys that were meant.
func Settings(text []byte, into any) error {
	b, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		if line, why, ok := YAML(err); ok {
			return fmt.Errorf("line %d: %s", line, why)
		}
		return err
	}
	in := json.NewDecoder(stdbytes.NewReader(b))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return errors.New(Struct(err, into))
	}
	return nil
}
