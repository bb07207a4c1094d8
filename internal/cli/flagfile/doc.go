// Package flagfile sets the flags of a command from the environment and a YAML file. It owns the
// form of the file, and the texts about keys and values that do not fit. It must not know the
// settings.
package flagfile
