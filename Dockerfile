# The image of the service: one static program and a bundle of public CAs.
#
#   docker build --build-arg COMMIT="$(git rev-parse HEAD)" -t tollgate .
#   docker run --rm --read-only -p 127.0.0.1:8080:8080 -e TOLLGATE_LIMIT=5/1m tollgate

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# Without the commands that replay access logs, which would make the image a tenth larger.
ARG FEATURES=--no-default-features
# What `tollgate --version --verbose` names; without it the commit is unknown.
ARG COMMIT
# Envoy Gateway starts /bin/ratelimit. Under that name, the program reads the variables of envoyproxy/ratelimit.
# With --target, the flags reach the program and not what runs during its build.
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
 && TOLLGATE_COMMIT="$COMMIT" RUSTFLAGS="-C target-feature=+crt-static" CARGO_PROFILE_DIST_STRIP=symbols \
    cargo build --locked --profile dist $FEATURES --package tollgate-server --target "$target" \
 && mkdir -p /image/bin && cp "target/$target/dist/tollgate" /image/tollgate \
 && ln -s ../tollgate /image/bin/ratelimit

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /image/ /
COPY LICENSE-APACHE LICENSE-MIT /licenses/
# Nobody of the host.
USER 65532:65532
# The admin listener stays on loopback: only processes in the same network namespace reach it.
ENV TOLLGATE_LISTEN=0.0.0.0:8080 TOLLGATE_METRICS_LISTEN=0.0.0.0:9100
EXPOSE 8080 9100
HEALTHCHECK --interval=10s --timeout=6s --start-period=2s CMD ["/tollgate", "check", "--health"]
ENTRYPOINT ["/tollgate"]
CMD ["serve"]
