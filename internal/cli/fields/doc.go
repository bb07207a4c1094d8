// Package fields finds fields of the API's messages by the names that users type: spec.rack,
// labels.env, or only rack if one field has that name. It owns the order of values. It knows
// descriptors, and no resource by name.
package fields
