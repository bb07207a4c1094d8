// Package discovery is the client of service discovery (specification 003). It registers a
// service, pings for it, reports its health, and deregisters it at the end.
//
// The package manages the lifetime of one registration, the file that keeps its id, and the
// OAuth2 token of its requests. It does not check the service: the service reports its
// health with Healthy and Unhealthy.
//
// The names of the original Java SDK map as follows: RegistrationManager is Manager,
// lastAsSuccessful is Healthy, lastAsFail is Unhealthy, DiscoveryCallback is Callback,
// DiscoveryHelper.resolveRegistrationAddress is RegistrationAddress. Its start and
// deregister are the beginning and the end of Run.
package discovery
