package providers_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
)

func TestMedium(t *testing.T) {
	secret := [32]byte{1, 2, 3, 255}
	u := providers.MediumURL("http://10.0.0.1:7404/", secret)
	if got, ok := providers.MediumSecret(u); !ok || got != secret || !strings.HasSuffix(u, ".iso") {
		t.Errorf("secret of %s: got %v, %v", u, got, ok)
	}
	for _, other := range []string{"", "http://192.0.2.1/rescue.iso",
		"http://192.0.2.1/netboot/media/short/installer.iso", "%zz", "http://192.0.2.1/netboot/media//installer.iso"} {
		if _, ok := providers.MediumSecret(other); ok {
			t.Errorf("secret of %q: got one, want none", other)
		}
	}
	one, sum := providers.MediumToken(secret)
	two, other := providers.MediumToken([32]byte{})
	if one == two || string(sum) == string(other) || strings.Contains(u, one) {
		t.Errorf("got tokens %s and %s", one, two)
	}
	said := `500: cannot mount "` + u + `" or ` + u + `, see http://10.0.0.1/netboot/media/help`
	if got, want := providers.HideMedium(said), `500: cannot mount "http://10.0.0.1:7404/netboot/media/…/installer.iso" or http://10.0.0.1:7404/netboot/media/…/installer.iso, see http://10.0.0.1/netboot/media/help`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
