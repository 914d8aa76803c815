// Package tollgate is a client of Tollgate, an exact rate limiter that runs as a service.
//
// A [Client] asks the service whether a request may pass:
//
//	tg, err := tollgate.New(tollgate.Options{URL: "http://127.0.0.1:8080"})
//	if err != nil {
//		return err
//	}
//	defer tg.Close()
//
//	decision, err := tg.Check(ctx, "search", tollgate.Attributes{"user": user})
//	if err != nil {
//		return err // the call is wrong, or ctx was cancelled
//	}
//	if !decision.Allowed {
//		return errTooMany
//	}
//
// For servers, [Client.Middleware] does this in front of any [net/http.Handler]. The modules gin, ulule and httprate in
// folders of these names serve gin, and the users of these limiters.
//
// # Three outcomes
//
// A denial is a [Decision], and no error. A service that does not answer is no error either: the client then admits
// ([Open], the default) or denies ([Closed]) by itself, counts the failure by its kind and logs one line a minute. The
// decision says so in Source and Failure. If the service refuses because of its store, its policy is closed, and the client
// denies whatever its options say. An error means that the call is wrong, such as an attribute that is a number,
// or that its context was cancelled.
//
// # Time
//
// Every call ends within [Options.Timeout], 250 ms by default, or at the deadline of its context if that is earlier. A
// deadline that passes during a call counts as a failure of the kind [FailureTimeout], like the timeout.
//
// # Repetition
//
// A request of which a byte may have been sent is never sent again, except those that carry the id of a hold: the
// service recognizes them. Every request is a POST without an Idempotency-Key, so net/http repeats it only if nothing
// of it was written.
//
// The contract of clients, docs/clients.md in the repository, defines what this package does.
package tollgate
