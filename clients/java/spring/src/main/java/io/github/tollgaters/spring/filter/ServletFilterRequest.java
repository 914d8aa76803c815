package io.github.tollgaters.spring.filter;

import jakarta.servlet.http.HttpServletRequest;
import java.security.Principal;
import org.springframework.http.server.RequestPath;

/** A request of a servlet container. */
final class ServletFilterRequest implements FilterRequest {

    private final HttpServletRequest request;
    private final RequestPaths paths;

    /** Throws an IllegalArgumentException if the path is encoded wrongly. */
    ServletFilterRequest(HttpServletRequest request) {
        this.request = request;
        this.paths = RequestPaths.of(withinApplication(request), containerPath(request));
    }

    /** Returns the path as it was sent, without that of the context. */
    private static String withinApplication(HttpServletRequest request) {
        String path = request.getRequestURI();
        String context = request.getContextPath();
        try {
            return RequestPath.parse(path, context).pathWithinApplication().value();
        } catch (IllegalArgumentException error) {
            // The context is written in another way than the container found it: what the container matched decides.
            return path.startsWith(context) ? path.substring(context.length()) : containerPath(request);
        }
    }

    /** Returns the path by which the container chose the servlet. */
    private static String containerPath(HttpServletRequest request) {
        String info = request.getPathInfo();
        String path = request.getServletPath() + (info == null ? "" : info);
        return path.isEmpty() ? "/" : path;
    }

    @Override
    public String method() {
        return request.getMethod();
    }

    @Override
    public RequestPaths paths() {
        return paths;
    }

    @Override
    public Object request() {
        return request;
    }

    @Override
    public Principal principal() {
        return request.getUserPrincipal();
    }

    @Override
    public String address() {
        return request.getRemoteAddr();
    }

    @Override
    public String header(String name) {
        return request.getHeader(name);
    }

    @Override
    public String param(String name) {
        return request.getParameter(name);
    }
}
