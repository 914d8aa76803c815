module github.com/tollgate-rs/tollgate/clients/go

go 1.23.0
