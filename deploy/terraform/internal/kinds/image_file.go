package kinds

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// file returns the file of an attribute, or nil. Unknown parts are empty.
func file(o types.Object) *holdfastv1.Image_File {
	if o.IsNull() || o.IsUnknown() {
		return nil
	}
	url, sum, size := fileParts(o)
	return &holdfastv1.Image_File{Url: url.ValueString(), Sha256: sum.ValueString(), SizeBytes: size.ValueInt64()}
}

func fileParts(o types.Object) (url, sum types.String, size types.Int64) {
	url, _ = o.Attributes()["url"].(types.String)
	sum, _ = o.Attributes()["sha256"].(types.String)
	size, _ = o.Attributes()["size_bytes"].(types.Int64)
	return url, sum, size
}

// fileOf returns the attribute of a file on the server. Omitted parts stay null if they have their
// default.
func fileOf(old types.Object, live *holdfastv1.Image_File) types.Object {
	if live == nil {
		return types.ObjectNull(fileTypes())
	}
	url, sum, size := fileParts(old)
	if !size.IsNull() || live.GetSizeBytes() != 0 {
		size = types.Int64Value(live.GetSizeBytes())
	}
	return types.ObjectValueMust(fileTypes(), map[string]attr.Value{
		"url": values.Whole(url, live.GetUrl(), ""), "sha256": values.Kept(sum, live.GetSha256(), true), "size_bytes": size,
	})
}

// enum returns the attribute of an enumeration, whose case is no difference. The unset value is the
// default.
func enum[E interface {
	~int32
	String() string
}](old types.String, live E, byDefault string) types.String {
	name := byDefault
	if live != 0 {
		name = live.String()
	}
	if strings.EqualFold(old.ValueString(), name) {
		return old
	}
	return values.Whole(old, name, byDefault)
}

// names returns the names of an enumeration in the order of their numbers, without the unset one.
func names(of map[string]int32) string {
	all := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return int(of[a] - of[b]) })
	return strings.Join(all[1:], ", ")
}
