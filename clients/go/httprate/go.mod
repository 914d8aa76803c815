module github.com/tollgate-rs/tollgate/clients/go/httprate

go 1.23.0

require (
	github.com/go-chi/chi/v5 v5.2.3
	github.com/go-chi/httprate v0.16.1
	github.com/tollgate-rs/tollgate/clients/go v0.1.0
)

require (
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	golang.org/x/sys v0.30.0 // indirect
)

// For development in a clone. A replace directive has no effect in the modules that depend on this one.
replace github.com/tollgate-rs/tollgate/clients/go => ../
