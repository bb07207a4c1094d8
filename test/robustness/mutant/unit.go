package mutant

import "context"

// unitTest is a test of one package of the product.
type unitTest struct{ dir, name string }

// scenario returns the scenario that runs the test.
func (u unitTest) scenario() Scenario {
	pkg := "./" + u.dir
	return Scenario{Name: u.name + " of package " + u.dir, Run: func(ctx context.Context, e Env) ([]error, error) {
		if err := e.Source.Go(ctx, e.Dir, "vet", pkg); err != nil {
			return nil, err // it does not even build
		}
		if err := e.Source.Go(ctx, e.Dir, "test", "-count=1", "-run", "^"+u.name+"$", pkg); err != nil {
			return []error{err}, nil
		}
		return nil, nil
	}}
}
