// Package fields finds fields of the API's messages by the names that people type: spec.rack,
// labels.env, or only rack where one field is called so. It owns the order in which values are
// sorted. It knows descriptors, and no resource by name.
package fields
