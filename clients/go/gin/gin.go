// Package tollgategin is middleware of gin that asks a Tollgate service.
//
//	limit := tollgategin.New(tg, tollgategin.By("user", userOf), tollgate.Headers())
//	router.GET("/items/:id", limit, items)
//
// The name of a check is the template of its route, such as "/items/:id", unless [tollgate.Named] gives one. The options
// and the answers to denied requests are those of [tollgate.Client.Middleware].
package tollgategin

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// New returns a handler that checks each request, and aborts those that are denied. Without [tollgate.Named], requests
// that match no route are not checked.
func New(client *tollgate.Client, options ...tollgate.LimitOption) gin.HandlerFunc {
	limiter := client.Limiter(options...)
	return func(c *gin.Context) {
		route := c.FullPath()
		if route == "" && !limiter.Named() {
			c.Next()
			return
		}
		request := c.Request.WithContext(context.WithValue(c.Request.Context(), contextKey{}, c))
		if !limiter.Admit(c.Writer, request, route) {
			c.Abort()
			return
		}
		c.Next()
	}
}

// By counts requests by a key of the context of gin, which is sent as this attribute. [tollgate.By] takes functions of
// the request.
func By(attribute string, key func(*gin.Context) (string, error)) tollgate.LimitOption {
	return tollgate.By(attribute, func(r *http.Request) (string, error) {
		c, ok := r.Context().Value(contextKey{}).(*gin.Context)
		if !ok {
			return "", errors.New("tollgate: the key needs the middleware of tollgategin")
		}
		return key(c)
	})
}

// ByClientIP counts requests by the address that gin takes for the client's, which is sent as the attribute "ip". Call
// SetTrustedProxies of the engine first: by default, gin trusts everyone, so that clients choose their address.
// With TrustedPlatform, gin takes any text of the header; one that is no address is answered 500.
func ByClientIP() tollgate.LimitOption {
	return By("ip", func(c *gin.Context) (string, error) { return c.ClientIP(), nil })
}

type contextKey struct{}
