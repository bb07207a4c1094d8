// Package step implements the kinds of steps. Choose returns the Action of a step, which observes
// the machine before the effect, does the effect, and gathers the evidence that it happened. An
// action that an earlier leader began observes before it acts, so that no effect is repeated.
//
// It reaches machines through the capabilities of a provider, and the cluster through Env. It must
// not decide how an outcome changes a run, and no effect may bypass Env.Effect.
package step
