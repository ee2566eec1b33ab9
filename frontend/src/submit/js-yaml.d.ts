declare module "js-yaml" {
  export const CORE_SCHEMA: unique symbol;
  interface Options {
    schema?: typeof CORE_SCHEMA;
    lineWidth?: number;
  }
  export function load(text: string, options?: Options): unknown;
  export function dump(value: unknown, options?: Options): string;
}
